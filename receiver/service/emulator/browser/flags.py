"""The switches of Chromium (https://peter.sh/experiments/chromium-command-line-switches/)."""

_ALWAYS = (
    "--headless",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
    "--mute-audio",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--export-tagged-pdf",
    "--force-color-profile=srgb",
    # A page that nobody looks at works as fast as any other.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-ipc-flooding-protection",
    # Chromium asks for nothing by itself.
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--metrics-recording-only",
    # All requests of a page are seen where the page is: frames have no process of their own.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process,Translate,OptimizationHints,MediaRouter,AutofillServerCommunication,LocalNetworkAccessChecks,"
    "CertificateTransparencyComponentUpdater,GlobalMediaControls,HttpsUpgrades,InterestFeedContentSuggestions,"
    # Each window would load a page for the suggestions of its address bar, at ten times the cost of a small page.
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    # What is not answered by the emulator reaches nothing, whatever kind of connection it is.
    "--proxy-server=socks5://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--disk-cache-size=1",
    "--js-flags=--max-old-space-size=512",
)


def chromium_flags(*, sandbox: bool) -> list[str]:
    """Return the switches."""
    return [*_ALWAYS, *(() if sandbox else ("--no-sandbox",))]

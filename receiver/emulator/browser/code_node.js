// Runs JavaScript of a caller with `page`, `context` and `browser`: `node code_node.js CODE RESULT URL PLAYWRIGHT`.
// The code may await. The value of its last expression goes into the file RESULT.
'use strict';
const fs = require('fs');
const [code, result, url, playwright] = process.argv.slice(2);
const names = ['page', 'context', 'browser', 'require', 'console'];
const Code = Object.getPrototypeOf(async () => {}).constructor;

// The last lines that are one expression become what is returned.
function compiled(source) {
  const lines = source.trimEnd().split('\n');
  for (let start = lines.length - 1; start >= Math.max(0, lines.length - 100); start--) {
    const tail = lines.slice(start).join('\n').trim().replace(/;+$/, '');
    if (!tail) continue;
    for (const cut of [0, tail.lastIndexOf(';') + 1]) {
      const head = `${lines.slice(0, start).join('\n')}\n${tail.slice(0, cut)}`;
      try {
        return new Code(...names, `${head}\nreturn (${tail.slice(cut)}\n)`);
      } catch {
        continue;
      }
    }
  }
  return new Code(...names, source);
}

async function main() {
  const browser = await require(playwright).chromium.connectOverCDP(url);
  const context = browser.contexts()[0];
  const page = context.pages().at(-1) ?? (await context.newPage());
  const value = await compiled(fs.readFileSync(code, 'utf8'))(page, context, browser, require, console);
  if (value !== undefined && value !== null) {
    fs.writeFileSync(result, typeof value === 'string' ? value : JSON.stringify(value) ?? String(value));
  }
}

main().then(
  () => process.exit(0),
  error => { console.error(error && error.stack ? error.stack : String(error)); process.exit(1); });

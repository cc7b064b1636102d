"""The console: pages that show what came and what failed, and put it right.

It reads through the reports of a store and acts through the same actions as the command line. No page needs
JavaScript, and none asks another host for anything.
"""

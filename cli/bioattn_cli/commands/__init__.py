"""One file for each command of `bioattn`, named after it; the decorator `command` says which one it is.

`bioattn_cli.verbs` imports all of them; nothing else lists them.
"""

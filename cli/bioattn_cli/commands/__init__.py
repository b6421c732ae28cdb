"""One file for each verb of `bioattn`; `bioattn_cli.program` imports all of them, and nothing else lists them."""

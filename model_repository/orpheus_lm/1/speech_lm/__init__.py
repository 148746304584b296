"""A speech language model's side of the pipeline: text to prompt ids, token stream to codec windows.

Pure modules (numpy and the standard library only): `tokens`, `framing`, `windows`, `chunking`, `segments`, `prompt`.
Around them: `voice` (a model as data), `frontends`, `requests`, `settings`, `acks`, `stream`, `service`, `engines`.
Nothing here knows Triton: `model.py`, beside this package, is the only file that does.
"""

"""The codec's side of the pipeline: a window of codes in, exactly its new samples out. No stream state is kept.

`receptive_field`, `noise`, `pcm`, `window`, `tiles`, `acks`, `settings`: numpy and the standard library. `engines` hold the network;
`batching` joins both. Nothing here knows Triton: `model.py`, beside this package, is the only file that does.
"""

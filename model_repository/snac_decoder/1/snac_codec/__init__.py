"""The codec's side of the pipeline: a window of codes in, exactly its new samples out. No stream state is kept.

`receptive_field`, `noise`, `pcm`, `window`, `acks`: numpy and the standard library; `decoder`: ONNX Runtime; `batching` joins them.
Nothing here knows Triton: `model.py`, beside this package, is the only file that does.
"""

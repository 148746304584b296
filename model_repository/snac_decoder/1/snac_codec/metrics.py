"""What the codec counts. Plain numbers; the adapter publishes them to Triton's metrics."""

from __future__ import annotations

FAMILIES = {
    "snac_decoder_windows_total": "Windows answered, with an error or with samples",
    "snac_decoder_batches_total": "Batches that Triton made of them",
    "snac_decoder_tiles_total": "Tiles that the windows' new samples were cut into",
    "snac_decoder_samples_total": "Samples decoded",
    "snac_decoder_errors_total": "Windows answered with an error",
    "snac_decoder_decode_seconds_total": "Seconds spent on batches",
    "snac_decoder_batch_rows_bucket": "Windows per batch, cumulative buckets",
}
BATCH_ROWS_BUCKETS = (1, 2, 4, 8, 16, 32, 64)

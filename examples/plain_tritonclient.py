"""One streamed utterance with nothing but tritonclient and NumPy, saved as speech.wav. Ctrl-C stops it on the server too.

    pip install "tritonclient[grpc]" numpy
    python plain_tritonclient.py "The train to London leaves at half past nine." [HOST:PORT]

The package in client/ does the same with deadlines, error kinds, checks and timings.
"""

# pyright: basic
# (tritonclient carries no types)
from __future__ import annotations

import queue
import signal
import sys
import time
import uuid
import wave

import numpy as np
import tritonclient.grpc as triton

SAMPLE_RATE_HZ = 24000


def tensor(name: str, datatype: str, value: object) -> triton.InferInput:
    """One value, as all inputs of the model are."""
    given = triton.InferInput(name, [1], datatype)
    given.set_data_from_numpy(np.array([value], triton.triton_to_np_dtype(datatype)))
    return given


def speak(text: str, url: str) -> None:
    request_id = uuid.uuid4().hex
    answers: queue.SimpleQueue = queue.SimpleQueue()

    def stop(*_: object) -> None:
        """The request id names the stream to end. It still sends its last chunk, so the loop below just goes on."""
        client.async_stream_infer("orpheus_lm", [tensor("TEXT", "BYTES", b""), tensor("STOP", "BOOL", True)], request_id=request_id)

    with triton.InferenceServerClient(url) as client, wave.open("speech.wav", "wb") as file:
        file.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
        began_s = time.monotonic()
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer("orpheus_tts", [tensor("TEXT", "BYTES", text.encode())], request_id=request_id)
        signal.signal(signal.SIGINT, stop)
        finish_reason = ""
        while not finish_reason:  # stop | length | cancelled; a stream that ends without one is broken
            result, error = answers.get(timeout=30)
            if error:
                raise error
            audio = result.as_numpy("AUDIO")
            if audio is None:
                continue  # the answer to STOP
            file.writeframes(audio.tobytes())
            finish_reason = result.as_numpy("FINISH_REASON")[0].decode()
            print(f"{1000 * (time.monotonic() - began_s):6.0f} ms  {len(audio)} samples  {finish_reason}")
        client.stop_stream()


if __name__ == "__main__":
    speak(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "localhost:8001")

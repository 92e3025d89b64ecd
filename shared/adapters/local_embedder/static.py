"""WordLlama's 256-dimensional token table: the light model. A text's vector is the mean of its tokens' rows."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shared.adapters.local_embedder.lazy import LazyEmbedder
from shared.adapters.local_embedder.packaged import PackagedFile

if TYPE_CHECKING:
    import tokenizers

WEIGHTS = PackagedFile(
    "wordllama",
    "weights/l2_supercat_256.safetensors",
    "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
)
TOKENIZER = PackagedFile(
    "wordllama",
    "tokenizers/l2_supercat_tokenizer_config.json",
    "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
)
MAX_TOKENS = 512

Table = npt.NDArray[np.float32]


class StaticEmbedder(LazyEmbedder["tuple[tokenizers.Tokenizer, Table]"]):
    """Knows no word order."""

    name = "wordllama-256"
    dimension = 256
    # 97 of 100 pairs of a question and a message from a foreign conversation lie below.
    noise = 0.25
    # It knows words, not sentences, and says little that the words themselves do not say.
    nearness = 0.25

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        tokenizer, table = self._loaded()
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            # The batch of one spares the places of tokens in the text; a larger one would take every core.
            ids = tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids
            # The numbers of the table are so coarse that doubles add them without rounding, in whatever order.
            mean = table[ids].sum(axis=0, dtype=np.float64) / max(1, len(ids))
            length = float(np.linalg.norm(mean))
            # A text without tokens points nowhere in particular, but at unit length like all others.
            vectors[row] = mean / length if length > 0 else np.full(self.dimension, self.dimension**-0.5)
        return vectors

    def _read(self) -> tuple[tokenizers.Tokenizer, Table]:
        weights, vocabulary = WEIGHTS.locate(), TOKENIZER.locate()
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        return tokenizer, token_table(weights)


def token_table(file: Path) -> Table:
    """The one tensor of a safetensors file: an 8-byte length, a JSON header with shape and offsets, then the data.

    Widened to 32 bits: widening the rows of every text anew takes longer than adding them.
    """
    data = file.read_bytes()
    (header_size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + header_size])
    (tensor,) = (entry for name, entry in header.items() if name != "__metadata__")
    if tensor["dtype"] != "F16":
        raise ValueError(f"expected 16-bit floats, found {tensor['dtype']}")
    start, end = tensor["data_offsets"]
    values = np.frombuffer(data, "<f2", (end - start) // 2, 8 + header_size + start)
    return values.reshape(tensor["shape"]).astype(np.float32)

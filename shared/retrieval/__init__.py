"""Pure ranking: tokens, passages, word scores, fusion, priors and the blend of tiers. No I/O, no clock."""

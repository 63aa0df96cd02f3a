"""How good and how late: corpora, clocks, scores, peers and reports. Nothing of the runtime imports this."""

"""Training the networks of pilot inference: late contextualisation, and its rivals of the same size. Needs torch.

One file per kind of layer, `network` puts them together, `batches` are what it learns from, `run` is how.
"""

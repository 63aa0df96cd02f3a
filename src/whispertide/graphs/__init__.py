"""ONNX graphs built from a checkpoint's weights, one file per kind. `contract` says what every graph file
promises; `store` builds each kind when it is first asked for, and keeps it.
"""

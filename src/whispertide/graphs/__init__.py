"""ONNX graphs built from a checkpoint's weights. `contract` names what every graph file promises; `store` keeps
them.
"""

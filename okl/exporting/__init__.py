"""Models for other programs: ONNX files that score raw rows as okl does."""

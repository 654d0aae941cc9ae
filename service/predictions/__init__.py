"""Predictions: files that solves write, their readers, and suggestions and accuracy from them."""

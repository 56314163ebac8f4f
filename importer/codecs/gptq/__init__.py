"""GPTQ's and AWQ's packed weights."""

"""Carry out a plan: read, encode, hash and write, in parallel and in bounded memory."""

"""What the engine drives: a kernel on a target, what is recorded of it, and what is checked before the first step."""

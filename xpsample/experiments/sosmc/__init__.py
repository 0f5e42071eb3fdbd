"""The experiments of the SOSMC paper."""

"""Whether this checkout is slower than a commit. ``python -m asv_benchmarks.regressions`` compares with the last one.

Both libraries are measured by this checkout's benchmarks, each in a process of its own, in turns: base, new, base, new.
What is compared are CPU times of runs next to each other, and counts that no machine blurs: evaluations, evaluations
for an effective sample, compilations of JAX, memory. What is `LIMIT` times as much, or more, is looked at
again in new processes and in more rounds; where that confirms it, the command fails. docs/developer/benchmarks.md has
its rate of false alarms.
"""

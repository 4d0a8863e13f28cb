"""Measuring the engine beside plain rq, on the same servers, in the same run.

``python -m benchmarks`` runs every workload, ``python -m benchmarks drain_10k`` one of them;
``make bench`` and ``make bench ONLY=drain_10k`` do the same. The table shows each figure beside
its targets; ``out/latest.json`` holds everything that was measured. A workload that is measured
alone replaces its own entry there; each says when it was measured. How two commits are compared
stands in ``compare`` and ``trees``.

Method:

* Each workload has a process and servers of its own. PostgreSQL and Valkey are started in a folder
  below /var/tmp (a disk, where /tmp may be memory), with fsync and synchronous_commit on, reached
  over TCP; Valkey writes its log every second. With SERVERS=stock they are those of the system's
  packages, with default settings. The time of an fsync there is printed, because every figure
  depends on it.
* Workers and dispatcher are the real commands. Every handler appends 24 bytes to a file; rates
  come from the time stamps in it, never from what a queue says of itself. The first 5 % are left
  out. After a drain the rows must agree that every job succeeded.
* Workers start on a full queue. Before it is filled, TRUNCATE and FLUSHALL; after it is filled,
  VACUUM ANALYZE and CHECKPOINT.
* What flow control costs is measured beside the engine without it, in turns. Kinds with limits are
  known only to the processes of workloads that are about limits.
* Two rq SimpleWorkers run just before each measured drain, in a Redis database of their own.
  Ratios are medians over such neighbours. Two Workers, which fork for every job, run once.
* Before a drain the driver waits a few seconds for other people's processes to leave the machine
  alone. Where they used more than 0.3 cores during it, it is repeated once, and the quieter of
  the two counts; the table says so where that was not quiet either. The whole of each workload is
  watched, too.

What a workload measures, and how, stands in its module.
"""

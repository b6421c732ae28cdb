"""What bioattn finds where it runs: devices, threads, memory, libraries, folders; behind `bioattn doctor`.

finding.py   one finding and its verdict
compute.py   devices, threads, memory
software.py  versions, optional extras
storage.py   folders, locks, HDF5, file handles
examine.py   all of them together
"""

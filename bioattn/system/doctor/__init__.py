"""What bioattn finds where it runs: devices, threads, memory, libraries, folders; behind `bioattn doctor`.

diagnosis.py   one diagnosis and its status
compute.py   devices, threads, memory
software.py  versions, optional extras
storage.py   folders, locks, HDF5, file handles
examine.py   all of them together
"""

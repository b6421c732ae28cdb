"""What bioattn finds where it runs: devices, threads, memory, libraries; behind `bioattn doctor`.

diagnosis.py   one diagnosis and its status
compute.py   devices, threads, memory
software.py  versions, optional extras
examine.py   all of them together
"""

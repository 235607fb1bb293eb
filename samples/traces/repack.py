"""repack.py TRACE: makes a small trace smaller, in place; its values stay. One chunk a dataset, and the file format of HDF5 1.10."""
import os
import sys

import h5py

SMALL = 600  # bytes: not worth a filter
SCALES = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME")  # they refer to objects of the old file


def copy_attributes(source, target):
    for name, value in source.attrs.items():
        if name not in SCALES:
            target.attrs.create(name, value, dtype=source.attrs.get_id(name).dtype)


def copy(source, target):
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            copy(item, target.create_group(name))
            continue
        packed = {}
        if item.dtype.kind != "S" and item.size * item.dtype.itemsize > SMALL:
            packed = {"compression": "gzip", "compression_opts": 9, "shuffle": True, "chunks": item.shape}
        copy_attributes(item, target.create_dataset(name, data=item[...], dtype=item.dtype, **packed))
    copy_attributes(source, target)


trace = sys.argv[1]
with h5py.File(trace) as whole, h5py.File(trace + ".part", "w", libver=("v110", "v110")) as small:
    copy(whole, small)
os.replace(trace + ".part", trace)

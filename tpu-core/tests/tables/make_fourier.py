"""Makes fourier.txt: Fourier transforms by PyTorch, in double precision, rounded to the nearest float32.

    python3 make_fourier.py > fourier.txt      (torch 2.15)

One transform a line: kind, sizes of the operand, lengths, and the result's numbers, row-major, imaginary parts after real ones.
The operand's number i, of its real and imaginary parts in turn, is (7919 i mod 101 - 50) / 8.
"""

import torch

print("# made by make_fourier.py with torch", torch.__version__.split("+")[0])


def operand(sizes, is_complex):
    count = 1
    for size in sizes:
        count *= size
    count *= 2 if is_complex else 1
    numbers = ((torch.arange(count) * 7919) % 101 - 50).double() / 8
    if is_complex:
        return torch.view_as_complex(numbers.reshape(*sizes, 2))
    return numbers.reshape(sizes)


def row(kind, sizes, lengths):
    axes = list(range(len(sizes) - len(lengths), len(sizes)))
    x = operand(sizes, kind != "RFFT")
    if kind == "FFT":
        y = torch.fft.fftn(x, dim=axes)
    elif kind == "IFFT":
        y = torch.fft.ifftn(x, dim=axes)
    elif kind == "RFFT":
        y = torch.fft.rfftn(x, dim=axes)
    else:
        y = torch.fft.irfftn(x, s=lengths, dim=axes)
    numbers = torch.view_as_real(y) if y.is_complex() else y
    text = " ".join("%.9g" % value for value in numbers.flatten().float().tolist())
    show = lambda list: ",".join(str(value) for value in list)
    print(kind, show(sizes), show(lengths), text)


for n in [1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 30, 37, 41]:
    for kind in ["FFT", "IFFT", "RFFT"]:
        row(kind, [n], [n])
    row("IRFFT", [n // 2 + 1], [n])
for lengths in [[3, 4], [4, 3], [2, 37], [2, 3, 4], [3, 2, 5], [1, 4, 1]]:
    for batch in [[], [2]]:
        for kind in ["FFT", "IFFT", "RFFT"]:
            row(kind, batch + lengths, lengths)
        row("IRFFT", batch + lengths[:-1] + [lengths[-1] // 2 + 1], lengths)

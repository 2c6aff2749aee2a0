"""Makes decompositions.txt: QR, eigenvalues and LU by PyTorch (LAPACK) in double precision.

    python3 make_decompositions.py > decompositions.txt      (torch 2.15)

One matrix a line: op, "real" or "complex", rows, columns, and the results' numbers, row-major, imaginary parts after real ones: q
and r of qr; eigenvalues of the lower triangle of eigh; both factors in one matrix and pivots, counted from 0, of lu. The
matrix's number i, of its real and imaginary parts in turn, is ((37 i^3 + 11 i) mod 101 - 50) / 8.
"""

import torch

print("# made by make_decompositions.py with torch", torch.__version__.split("+")[0])


def matrix(kind, rows, columns):
    count = rows * columns * (2 if kind == "complex" else 1)
    numbers = ((37 * torch.arange(count) ** 3 + 11 * torch.arange(count)) % 101 - 50).double() / 8
    if kind == "complex":
        return torch.view_as_complex(numbers.reshape(rows, columns, 2))
    return numbers.reshape(rows, columns)


def numbers(x):
    return (torch.view_as_real(x) if x.is_complex() else x).flatten().tolist()


for kind in ["real", "complex"]:
    for rows, columns in [(1, 1), (2, 2), (3, 3), (5, 3), (3, 5), (7, 7), (1, 4), (4, 1)]:
        x = matrix(kind, rows, columns)
        assert torch.linalg.cond(x) < 100
        row = lambda op, results: print(op, kind, rows, columns, " ".join("%.17g" % number for number in results))
        q, r = torch.linalg.qr(x)
        row("qr", numbers(q) + numbers(r))
        if rows == columns:
            row("eigh", numbers(torch.linalg.eigh(x, UPLO="L").eigenvalues))
        factors, pivots = torch.linalg.lu_factor(x)
        row("lu", numbers(factors) + [pivot - 1 for pivot in pivots.tolist()])

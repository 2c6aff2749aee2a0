"""Prints the order of an epoch of eight examples by seed 1: Philox 4x32-10 (Salmon et al., SC 2011) and Fisher and Yates."""

WORD = 0xFFFFFFFF


def philox(counter, key):
    for _ in range(10):
        even, odd = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [(odd >> 32) ^ counter[1] ^ key[0], odd & WORD, (even >> 32) ^ counter[3] ^ key[1], even & WORD]
        key = [(key[0] + 0x9E3779B9) & WORD, (key[1] + 0xBB67AE85) & WORD]
    return counter


def order(length, seed, epoch):
    numbers = list(range(length))
    for drawn, last in enumerate(range(length - 1, 0, -1)):
        counter = (epoch * 2**40 + drawn // 2) % 2**64
        words = philox([counter & WORD, counter >> 32, 0, 0], [seed & WORD, seed >> 32])
        word = words[2 * (drawn % 2)] << 32 | words[2 * (drawn % 2) + 1]
        place = word * (last + 1) >> 64
        numbers[last], numbers[place] = numbers[place], numbers[last]
    return numbers


# The example of the paper's authors.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
print(order(8, 1, 0))

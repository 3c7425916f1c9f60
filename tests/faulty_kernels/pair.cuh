// A pair of numbers, for the operators that test_emulator.py defines.

template <class T>
struct Pair {
    T first, second;
};

// What definitions of test_emulator.py include: two numbers that lie side by side.

template <class T>
struct Pair {
    T first, second;
};

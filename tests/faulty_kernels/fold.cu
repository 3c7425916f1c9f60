// No fault: a kernel over an operator that is defined in front of it, by the caller.

template <class Operator>
__global__ void fold(const typename Operator::Value* x, int n, typename Operator::Value* result) {
    typename Operator::Value value = x[0];
    for (int i = 1; i < n; ++i) value = Operator::combine(value, x[i]);
    *result = value;
}

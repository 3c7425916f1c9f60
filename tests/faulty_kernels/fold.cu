// No fault: a reduction by an operator that the caller defines before this source.

template <class Operator>
__global__ void fold(const typename Operator::Value* x, int n, typename Operator::Value* result) {
    typename Operator::Value value = x[0];
    for (int i = 1; i < n; ++i) value = Operator::combine(value, x[i]);
    *result = value;
}

// The bytes of the struct `Checked`, and before each of its members.

__global__ void layout(long long* found) {
    const long long bytes[] = {sizeof(Checked), OFFSETS};
    for (int k = 0; k < sizeof(bytes) / sizeof(bytes[0]); ++k) found[k] = bytes[k];
}

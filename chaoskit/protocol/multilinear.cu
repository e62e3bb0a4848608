// The sums of `fingerprint.reduce_on_device` in one pass over a tensor: for each chunk c of `chunk` words,
// out[c] += sum over j of weights[j] * words[c * chunk + j], modulo 2**64.
//
// multilinear.ptx is made of this file (the first lines there say how), so that a rank needs no compiler: the driver
// translates it for its device. A block keeps the weights of its TILE columns in registers and goes through the chunks.

#define THREADS 256
#define EACH 16
#define TILE (THREADS * EACH)

extern "C" __global__ void __launch_bounds__(THREADS)
chaoskit_multilinear(const int *__restrict__ words, long long count, const long long *__restrict__ weights,
                     long long chunk, unsigned long long *out)
{
    __shared__ unsigned long long parts[THREADS / 32];
    const long long first = (long long)blockIdx.x * TILE + threadIdx.x;
    const long long columns = count < chunk ? count : chunk;
    long long weight[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const long long j = first + k * THREADS;
        weight[k] = j < columns ? weights[j] : 0;
    }
    for (long long c = blockIdx.y; c * chunk + (long long)blockIdx.x * TILE < count; c += gridDim.y) {
        const long long at = c * chunk + first;
        // A tile that ends with its chunk ends where the weights are 0; only the end of the tensor must not be passed.
        const long long end = (c + 1) * chunk < count ? (c + 1) * chunk : count;
        int word[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++)
            word[k] = at + k * THREADS < end ? __ldg(words + at + k * THREADS) : 0;
        unsigned long long sum = 0;
#pragma unroll
        for (int k = 0; k < EACH; k++)
            sum += (unsigned long long)weight[k] * (unsigned long long)(long long)word[k];
#pragma unroll
        for (int step = 16; step; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0)
            parts[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int other = 1; other < THREADS / 32; other++)
                sum += parts[other];
            atomicAdd(out + c, sum);
        }
        __syncthreads();
    }
}

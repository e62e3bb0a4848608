// The sums of `fingerprint.reduce_on_device` in one pass over many tensors: for each chunk c of CHUNK words of a tensor,
// out[c] += sum over j of weights[j] * words[c * CHUNK + j], modulo 2**64.
//
// multilinear.ptx is made of this file (the first lines there say how), so that a rank needs no compiler: the driver
// translates it for its device. The work of a tensor is cut into units: TILE columns of up to DEEP chunks, whose weights
// stay in registers. The units of all tensors are numbered, and dealt out to the blocks in turn.

#define CHUNK (1LL << 21)
#define THREADS 256
#define EACH 16
#define TILE (THREADS * EACH)
#define DEEP 8

// As in multilinear.py: where a tensor lies, how many words it has, where its sums go, and its first unit.
struct Part {
    const int *words;
    long long count;
    unsigned long long *out;
    long long unit;
};

// Words k of a thread lie at 4 * thread + k % 4 + 1024 * (k / 4) of the tile. What lies past `end` is 0.
__device__ __forceinline__ void load(int (&word)[EACH], const int *words, long long tile, long long end, bool aligned)
{
    const long long first = tile + 4 * threadIdx.x;
    if (aligned && tile + TILE <= end) {
#pragma unroll
        for (int k = 0; k < EACH / 4; k++) {
            const int4 four = __ldg((const int4 *)(words + first + k * 4 * THREADS));
            word[4 * k] = four.x, word[4 * k + 1] = four.y, word[4 * k + 2] = four.z, word[4 * k + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const long long at = first + k % 4 + k / 4 * 4 * THREADS;
            word[k] = at < end ? __ldg(words + at) : 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
chaoskit_multilinear(const Part *__restrict__ parts, int count, const long long *__restrict__ weights)
{
    __shared__ unsigned long long sums[2][THREADS / 32];
    int turn = 0;
    for (int p = 0; p < count; p++) {
        const long long words = parts[p].count, columns = words < CHUNK ? words : CHUNK;
        const long long tiles = (columns + TILE - 1) / TILE, chunks = (words + CHUNK - 1) / CHUNK;
        const long long units = tiles * ((chunks + DEEP - 1) / DEEP), before = parts[p].unit % gridDim.x;
        for (long long unit = (blockIdx.x + gridDim.x - before) % gridDim.x; unit < units; unit += gridDim.x) {
            const int *const from = parts[p].words;
            unsigned long long *const out = parts[p].out;
            const bool aligned = (unsigned long long)from % 16 == 0;
            const long long column = unit % tiles * TILE, begin = unit / tiles * DEEP;
            const long long last = begin + DEEP < chunks ? begin + DEEP : chunks;
            long long weight[EACH];
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const long long at = column + 4 * threadIdx.x + k % 4 + k / 4 * 4 * THREADS;
                weight[k] = at < columns ? weights[at] : 0;
            }
            int word[EACH], next[EACH];
            load(word, from, begin * CHUNK + column, words, aligned);
            for (long long c = begin; c < last; c++) {
                // What a tile holds past the end of its chunk has the weight 0. It is all of CHUNK, a multiple of TILE.
                if (c + 1 < last)
                    load(next, from, (c + 1) * CHUNK + column, words, aligned);
                unsigned long long sum = 0;
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    sum += (unsigned long long)weight[k] * (unsigned long long)(long long)word[k];
#pragma unroll
                for (int step = 16; step; step /= 2)
                    sum += __shfl_down_sync(0xffffffffu, sum, step);
                if (threadIdx.x % 32 == 0)
                    sums[turn][threadIdx.x / 32] = sum;
                __syncthreads();
                if (threadIdx.x == 0) {
                    for (int other = 1; other < THREADS / 32; other++)
                        sum += sums[turn][other];
                    atomicAdd(out + c, sum);
                }
                turn ^= 1;
#pragma unroll
                for (int k = 0; k < EACH; k++)
                    word[k] = next[k];
            }
        }
    }
}

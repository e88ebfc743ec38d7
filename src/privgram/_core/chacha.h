/* ChaCha20: the block function of RFC 8439, eight blocks at a time. */
#ifndef PRIVGRAM_CHACHA_H
#define PRIVGRAM_CHACHA_H

#include <stddef.h>
#include <stdint.h>

#define CHACHA_WAYS 8
#define CHACHA_WORDS (16 * CHACHA_WAYS)

typedef struct {
    uint32_t key[8];
    uint64_t counter;             /* of the next block: words 12 and 13 of its input */
    uint32_t nonce[2];            /* words 14 and 15 */
    uint32_t next;                /* first word of the stream that was not handed out */
    uint32_t words[CHACHA_WORDS]; /* the stream, in the order of the RFC */
} chacha;

/* Take the 32 bytes of a key, and bytes 48 to 63 of the first block's input. */
void chacha_init(chacha *c, const uint8_t key[32], const uint8_t last[16]);

/* Overwrite memory, in a way that no compiler leaves out. */
void chacha_wipe(void *memory, size_t size);

/* The next four and eight bytes of the stream, as little-endian numbers. */
uint32_t chacha_next32(void *state);
uint64_t chacha_next64(void *state);
double chacha_next_double(void *state);

/* As many calls of chacha_next64. */
void chacha_fill(void *state, uint64_t *words, ptrdiff_t n);

#endif

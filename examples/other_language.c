/* Ancestral sampling in C, tested without Python in the loop: the logits of all contexts are in a file.
 *
 *     unmask audit --language paper-2gram --length 5 --logits logits.npy
 *     cc -O2 -o loop other_language.c -lm
 *     ./loop logits.npy 5 8 4 2000 > samples.jsonl
 *     unmask audit samples.jsonl --language paper-2gram --steps 4
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double uniform(void) { return (rand() + 0.5) / (RAND_MAX + 1.0); }

/* A token with probabilities exp(logits[v]) that sum to 1. */
static int draw(const float *logits, int vocabulary) {
    double left = uniform();
    int token = 0;
    while (token < vocabulary - 1 && (left -= exp(logits[token])) > 0) token++;
    return token;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: %s LOGITS LENGTH VOCABULARY STEPS ROWS\n", argv[0]);
        return 2;
    }
    int length = atoi(argv[2]), vocabulary = atoi(argv[3]), steps = atoi(argv[4]), rows = atoi(argv[5]);
    int mask = vocabulary, x[64];
    long contexts = 1;
    for (int j = 0; j < length; j++) contexts *= vocabulary + 1;
    size_t count = (size_t)contexts * length * vocabulary;
    float *logits = malloc(count * sizeof *logits);
    FILE *file = fopen(argv[1], "rb");
    /* float32 (contexts, length, vocabulary), behind a header of .npy */
    if (!file || !logits || length > 64 || fseek(file, -(long)(count * sizeof *logits), SEEK_END) ||
        fread(logits, sizeof *logits, count, file) != count) {
        fprintf(stderr, "cannot read %zu numbers from %s\n", count, argv[1]);
        return 1;
    }
    for (int row = 0; row < rows; row++) {
        for (int j = 0; j < length; j++) x[j] = mask;
        for (int k = 0; k < steps; k++) {
            long context = 0;
            for (int j = 0; j < length; j++) context = context * (vocabulary + 1) + x[j];
            const float *here = logits + context * length * vocabulary;
            for (int j = 0; j < length; j++)
                if (x[j] == mask && uniform() < 1.0 / (steps - k)) x[j] = draw(here + j * vocabulary, vocabulary);
        }
        for (int j = 0; j < length; j++) printf("%s%d", j ? ", " : "[", x[j]);
        printf("]\n");
    }
    return 0;
}

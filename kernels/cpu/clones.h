#pragma once
// A function marked KVSCOPE_CLONES is compiled twice, for AVX2 + FMA and for plain x86-64; the loader picks.
//
// x86-64-v3 is AVX2 and FMA, whatever the model of the processor ("arch=haswell" would be that one model alone).
// Sanitizers instrument the loader's resolver functions, which run before the sanitizer has started and crash.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define KVSCOPE_CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define KVSCOPE_CLONES
#endif

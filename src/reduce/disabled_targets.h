// What Highway compiles the loops of this folder for. To be included before hwy/foreach_target.h.
//
// SSE4 (2008), AVX2 (2013), AVX3 (AVX-512, 2017), NEON, and the plain code that everything falls back to.
// SSSE3 without SSE4 is a processor of 2006; the later AVX-512 sets add nothing that a fold uses. Scalable vectors
// cannot be held in arrays, as the loops do. Each instruction set costs about 100 KiB of code.
// Sanitizers, which make the compiler several times slower here, look at one vector width only: the loops are the same.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TUTTI_OTHER_WIDTHS (HWY_SSE4 | HWY_AVX3)
#else
#define TUTTI_OTHER_WIDTHS 0
#endif
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | TUTTI_OTHER_WIDTHS)

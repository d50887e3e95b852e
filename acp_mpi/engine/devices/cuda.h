#ifndef ACP_CUDA_H
#define ACP_CUDA_H

#include "devices/kind.h"

#define CUDA_NUMBER 2 /* as DLPack has it */

extern const struct kind cuda_kind;

#endif

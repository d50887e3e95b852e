#ifndef ACP_OPENCL_H
#define ACP_OPENCL_H

#include "devices/kind.h"

#define OPENCL_NUMBER 4 /* as DLPack has it */

extern const struct kind opencl_kind;

#endif

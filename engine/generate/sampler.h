#pragma once
#include "engine/core/sampling/sampler.h"

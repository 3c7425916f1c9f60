// stacked.cu for a CPU: a worker is a thread of the process, and a block of one thread.
//
// The sums do not depend on the number of workers: the chunks of the rows do not.

#include "cuda.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>

#include "serial_grid.cuh"

#include "serial_fits.cuh"

#include "exported.h"

namespace {

using Fits = StackedFits<CompactPart>;

/// The steps of a launch by one worker; whether there was enough memory.
template <template <class, class> class RowsOf, class Family>
bool make_steps_by_worker(const Fits& all, const SerialFits& serial, double* shared) {
    bool failed = false;
    make_steps<RowsOf, Family, 1>(all, SerialLearners{all, serial, shared, failed});
    return !failed;
}

/// A family, by its name in C++.
struct KnownFamily {
    const char* name;
    bool (*make_steps)(const Fits&, const SerialFits&, double*);
};

#define SINGLE(...) {#__VA_ARGS__, make_steps_by_worker<SingleRows, __VA_ARGS__>}
#define COUPLED(...) {#__VA_ARGS__, make_steps_by_worker<CoupledRows, __VA_ARGS__>}

const KnownFamily known[] = {
    SINGLE(Gaussian),
    SINGLE(Laplace),
    SINGLE(Quantile),
    SINGLE(Expectile),
    SINGLE(Huber<Nuisance::fixed>),
    SINGLE(Huber<Nuisance::median>),
    SINGLE(BinomialHalfLogit),
    SINGLE(BinomialLogit),
    SINGLE(Poisson),
    SINGLE(PropOdds),
    SINGLE(Tweedie),
    SINGLE(Gamma<Nuisance::fixed>),
    SINGLE(Gamma<Nuisance::shape>),
    SINGLE(NegativeBinomial<Nuisance::fixed>),
    SINGLE(NegativeBinomial<Nuisance::theta>),
    SINGLE(Hurdle<Nuisance::fixed>),
    SINGLE(Hurdle<Nuisance::theta>),
    SINGLE(Weibull<Nuisance::fixed>),
    SINGLE(Weibull<Nuisance::scale>),
    SINGLE(LogLogistic<Nuisance::fixed>),
    SINGLE(LogLogistic<Nuisance::scale>),
    SINGLE(LogNormal<Nuisance::fixed>),
    SINGLE(LogNormal<Nuisance::scale>),
    SINGLE(CoxPH),
    COUPLED(Multinomial),
    COUPLED(distributions::Gaussian),
    COUPLED(distributions::StudentT),
    COUPLED(distributions::Gamma),
    COUPLED(distributions::Beta),
    COUPLED(distributions::NegativeBinomial),
    COUPLED(distributions::ZeroInflatedPoisson),
    COUPLED(distributions::ZeroInflatedNegativeBinomial),
};

const KnownFamily* find(const char* name) {
    for (const KnownFamily& family : known)
        if (std::strcmp(family.name, name) == 0) return &family;
    return nullptr;
}

}  // namespace

/// Whether the object has a family.
GPUSOLVE_EXPORTED int gpusolve_has_family(const char* name) {
    return find(name) != nullptr;
}

/// The steps of a launch.
GPUSOLVE_EXPORTED int gpusolve_boost(const char* name, const Fits* all, const SerialFits* serial) {
    std::atomic<bool> succeeded{true};
    const KnownFamily* family = find(name);
    const long long size = serial->workspace;
    const std::unique_ptr<double[]> memory(new (std::nothrow) double[serial->workers * size]);
    if (memory == nullptr) return out_of_memory;
    for_each_worker(serial->workers, [&] {
        if (!family->make_steps(*all, *serial, memory.get() + blockIdx.x * size)) succeeded = false;
    });
    return succeeded ? finished : out_of_memory;
}

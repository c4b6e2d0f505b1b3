// What a driver reads in a cubin: its kernels, and what a launch of each takes.
//
// Main function: read_cubin. The form is ELF with NVIDIA's sections: .text.K, .nv.shared.K and .nv.info.K of a kernel K,
// .nv.info of all. Attributes of .nv.info are named as cuobjdump names them. Refuses to know: instructions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <map>
#include <string>
#include <vector>

namespace fake {

/// Of a block's shared memory, what the system keeps for itself.
constexpr unsigned SHARED_RESERVED = 1024;

struct Kernel {
    std::string name;
    unsigned registers = 0;
    /// Static shared memory, with what the system keeps of it for itself.
    unsigned shared = 0;
    /// Of a block; what `__launch_bounds__` says.
    unsigned most_threads = 1024;
    /// Bytes of each parameter, in their order.
    std::vector<unsigned> parameters;
    /// Most bytes of dynamic shared memory that a launch may ask for; less what is static where nobody says more.
    unsigned dynamic_limit = 48 << 10;
};

struct Cubin {
    /// As 90 for sm_90; 0: the image is no cubin.
    unsigned arch = 0;
    std::map<std::string, Kernel> kernels;
};

namespace cubin {

constexpr unsigned MACHINE_CUDA = 190;
constexpr unsigned char FORM_BYTES = 4;
constexpr unsigned char MAX_THREADS = 0x05, PARAMETER = 0x17, REGISTERS = 0x2f;

struct Section {
    std::string name;
    const unsigned char *bytes;
    const Elf64_Shdr *header;
};

inline uint32_t word(const unsigned char *bytes) {
    uint32_t value;
    std::memcpy(&value, bytes, 4);
    return value;
}

/// Calls `take(attribute, value, bytes)` for each attribute that has bytes of its own.
template <class Take> void attributes(const Section &section, Take take) {
    const unsigned char *at = section.bytes, *end = at + section.header->sh_size;
    while (at + 4 <= end) {
        const unsigned bytes = at[0] == FORM_BYTES ? at[2] | at[3] << 8 : 0;
        if (bytes > 0) {
            take(at[1], at + 4, bytes);
        }
        at += 4 + bytes;
    }
}

inline std::vector<Section> sections(const unsigned char *image) {
    const auto *head = reinterpret_cast<const Elf64_Ehdr *>(image);
    const auto *table = reinterpret_cast<const Elf64_Shdr *>(image + head->e_shoff);
    const auto *names = reinterpret_cast<const char *>(image + table[head->e_shstrndx].sh_offset);
    std::vector<Section> all;
    for (unsigned at = 0; at < head->e_shnum; at++) {
        all.push_back({names + table[at].sh_name, image + table[at].sh_offset, &table[at]});
    }
    return all;
}

/// Names by the symbols' numbers.
inline std::vector<std::string> symbols(const std::vector<Section> &all) {
    std::vector<std::string> names;
    for (const Section &section : all) {
        if (section.header->sh_type != SHT_SYMTAB) {
            continue;
        }
        const auto *text = reinterpret_cast<const char *>(all[section.header->sh_link].bytes);
        const auto *symbol = reinterpret_cast<const Elf64_Sym *>(section.bytes);
        for (size_t at = 0; at < section.header->sh_size / sizeof(Elf64_Sym); at++) {
            names.emplace_back(text + symbol[at].st_name);
        }
    }
    return names;
}

/// What follows `prefix` in `name`; empty where it begins otherwise.
inline std::string after(const std::string &prefix, const std::string &name) {
    return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : "";
}

inline void read_own(Kernel &kernel, const Section &section) {
    attributes(section, [&](unsigned char attribute, const unsigned char *value, unsigned bytes) {
        if (attribute == MAX_THREADS && bytes >= 12) {
            kernel.most_threads = word(value) * word(value + 4) * word(value + 8);
        }
        if (attribute == PARAMETER && bytes >= 12) {
            const unsigned ordinal = word(value + 4) & 0xffff, size = word(value + 8) >> 18;
            kernel.parameters.resize(std::max<size_t>(kernel.parameters.size(), ordinal + 1));
            kernel.parameters[ordinal] = size;
        }
    });
}

} // namespace cubin

/// `image` is a whole ELF file, or something else.
inline Cubin read_cubin(const unsigned char *image) {
    using namespace cubin;
    const auto *head = reinterpret_cast<const Elf64_Ehdr *>(image);
    Cubin read;
    if (std::memcmp(image, ELFMAG, SELFMAG) != 0 || head->e_machine != MACHINE_CUDA) {
        return read;
    }
    // NVRTC 12 and 13 keep it in different places.
    read.arch = head->e_ident[EI_ABIVERSION] < 8 ? head->e_flags & 0xff : head->e_flags >> 8 & 0xff;
    const std::vector<Section> all = sections(image);
    for (const Section &section : all) {
        const std::string name = after(".text.", section.name);
        if (!name.empty()) {
            read.kernels[name].name = name;
        }
    }
    const std::vector<std::string> names = symbols(all);
    for (const Section &section : all) {
        const std::string own = after(".nv.info.", section.name), shared = after(".nv.shared.", section.name);
        if (read.kernels.count(own)) {
            read_own(read.kernels[own], section);
        }
        if (read.kernels.count(shared)) {
            Kernel &kernel = read.kernels[shared];
            kernel.shared = unsigned(section.header->sh_size);
            kernel.dynamic_limit -= std::max(kernel.shared, SHARED_RESERVED) - SHARED_RESERVED;
        }
        if (section.name != ".nv.info") {
            continue;
        }
        attributes(section, [&](unsigned char attribute, const unsigned char *value, unsigned bytes) {
            const bool known = attribute == REGISTERS && bytes >= 8 && word(value) < names.size();
            if (known && read.kernels.count(names[word(value)])) {
                read.kernels[names[word(value)]].registers = word(value + 4);
            }
        });
    }
    return read;
}

} // namespace fake

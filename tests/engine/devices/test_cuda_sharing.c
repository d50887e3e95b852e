/* Memory of the CUDA kind in other processes, with the stand-in for the driver. */
#include "devices/cuda_program.h"

#include <fcntl.h>

struct offer {
    struct kind_ticket ticket;
    uint64_t offset;
};

/* Has an array of 1000 bytes, all 5, in the middle of its memory, and lets others have it until they say so. */
static void lend(int line)
{
    struct offer offer;
    unsigned char bytes[1000];
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block own = allocated((struct kind_place){.number = 0}, SIZE), array = adopted(memory + 4000, 1000);
    int by_name = getenv("BY_DESCRIPTOR") == NULL, descriptor;
    const struct kind_block *block = by_name ? &array : &own;
    memset(bytes, 5, sizeof bytes);
    copied(in_block(block, 4000), in_host(bytes), sizeof bytes);
    CHECK(kind->publish(state, block, &offer.ticket, &descriptor, &fault) == KIND_OK);
    CHECK(offer.ticket.how == (by_name ? KIND_BY_NAME : KIND_BY_DESCRIPTOR) && by_name == (descriptor < 0));
    offer.ticket.descriptor = descriptor;
    offer.offset = 4000;
    scene_say(line, &offer, sizeof offer);
    scene_await(line);
    CHECK(byte_at(block, 4007) == 7 && byte_at(block, 4008) == 5);
    kind->release(state, &own);
    kind->release(state, &array);
    if (descriptor >= 0)
        close(descriptor);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static struct scene_peer lender(struct offer *offer)
{
    struct scene_peer peer = scene_start(lend);
    scene_hear(peer.line, offer, sizeof *offer);
    return peer;
}

static int import(struct scene_peer peer, const struct kind_ticket *ticket, struct kind_block *block)
{
    char path[64];
    int descriptor = -1;
    if (ticket->how == KIND_BY_DESCRIPTOR) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer.process, ticket->descriptor);
        CHECK((descriptor = open(path, O_RDWR | O_CLOEXEC)) >= 0);
    }
    int rc = kind->import(state, ticket, descriptor, block, &fault);
    if (descriptor >= 0)
        close(descriptor);
    return rc;
}

/* On the device of that number, which may be another one than the lender's. */
static void imported(int device)
{
    struct offer offer;
    struct kind_block first, second;
    struct scene_peer peer = lender(&offer);
    begin();
    CHECK(!kind->active(state, offer.ticket.device));
    CHECK(import(peer, &offer.ticket, &first) == KIND_CANNOT && says("no context"));
    program(device);
    CHECK(kind->active(state, offer.ticket.device));
    CHECK(import(peer, &offer.ticket, &first) == KIND_OK && import(peer, &offer.ticket, &second) == KIND_OK);
    CHECK(first.size == offer.ticket.size && memcmp(first.device, offer.ticket.device, 16) == 0);
    CHECK(standin_contexts() == 1 && standin_imports());
    CHECK(byte_at(&first, offer.offset) == 5 && byte_at(&first, offer.offset - 1) == 0);
    kind->release(state, &first);
    CHECK(byte_at(&second, offer.offset + 999) == 5); /* it is open as long as one of them is */
    put_byte(&second, offer.offset + 7, 7);
    kind->release(state, &second);
    CHECK(standin_imports() == 0);
    scene_sign(peer.line);
    CHECK(scene_end(peer) == 0);
    CHECK(offer.ticket.how == KIND_BY_DESCRIPTOR || import(peer, &offer.ticket, &first) == KIND_CANNOT);
    program_end(device);
    end();
}

static void peers_map_each_others_memory(void)
{
    imported(0);
}

static void a_device_maps_memory_of_another_one(void)
{
    imported(1);
}

static void a_device_without_a_path_does_not(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(1);
    CHECK(!kind->active(state, offer.ticket.device) && import(peer, &offer.ticket, &block) == KIND_CANNOT);
    scene_kill(peer);
    program_end(1);
    end();
}

static void an_import_outlives_its_owner(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(0);
    CHECK(import(peer, &offer.ticket, &block) == KIND_OK);
    scene_kill(peer);
    if (offer.ticket.how == KIND_BY_DESCRIPTOR)
        CHECK(byte_at(&block, offer.offset) == 5);
    kind->release(state, &block);
    program_end(0);
    end();
}

static void blocks_of_this_process_are_imported_as_they_are(void)
{
    struct kind_ticket ticket;
    struct kind_block twin;
    int descriptor;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory + 100, 8);
    CHECK(kind->publish(state, &block, &ticket, &descriptor, &fault) == KIND_OK && ticket.how == KIND_BY_NAME);
    CHECK(kind->import(state, &ticket, -1, &twin, &fault) == KIND_OK && twin.base == memory);
    put_byte(&twin, 100, 4);
    CHECK(byte_at(&block, 100) == 4);
    kind->release(state, &twin);
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void wrong_tickets_are_refused(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(0);
    struct kind_ticket good = offer.ticket, bad = good;
    bad.size *= 2;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.size += 1;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.granule = 200;
    CHECK(good.how == KIND_BY_NAME || import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    memset(bad.name, 0xa5, sizeof bad.name);
    CHECK(good.how == KIND_BY_DESCRIPTOR || import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    memset(bad.device, 0xa5, sizeof bad.device);
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.how = 17;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(good.how == KIND_BY_NAME || kind->import(state, &good, other, &block, &fault) == KIND_CANNOT);
    close(other);
    CHECK(standin_imports() == 0);
    scene_kill(peer);
    program_end(0);
    end();
}

int main(void)
{
    const char *ways[] = {"", "BY_DESCRIPTOR=1"};
    for (int i = 0; i < 2; i++) {
        scene_play(peers_map_each_others_memory, ways[i], NULL);
        scene_play(an_import_outlives_its_owner, ways[i], NULL);
        scene_play(wrong_tickets_are_refused, ways[i], NULL);
    }
    scene_play(a_device_maps_memory_of_another_one, "FAKE_DEVICES=2", NULL);
    scene_play(a_device_maps_memory_of_another_one, "FAKE_DEVICES=2 BY_DESCRIPTOR=1", NULL);
    scene_play(a_device_without_a_path_does_not, "FAKE_DEVICES=2 FAKE_NO_PEER=1", NULL);
    scene_play(blocks_of_this_process_are_imported_as_they_are, "", NULL);
    return 0;
}

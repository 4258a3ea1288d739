"""Images: files, resizing, boxes, colours and measures."""

import numpy as np
import pytest
import sluice.compat.v1 as tf


@pytest.fixture
def rng():
    return np.random.RandomState(0)


@pytest.fixture
def image(rng):
    """Returns a float image of 5 x 7 pixels."""
    return rng.rand(5, 7, 3).astype(np.float32)


# ---- Files -------------------------------------------------------------------


def test_png_files_round_trip(run, rng):
    pixels = rng.randint(0, 256, [4, 5, 3]).astype(np.uint8)
    encoded = tf.image.encode_png(pixels)
    decoded = tf.image.decode_png(encoded)
    assert decoded.shape.as_list() == [None, None, None]
    np.testing.assert_array_equal(run(decoded), pixels)
    grey = tf.image.decode_png(encoded, channels=1)
    assert grey.shape.as_list() == [None, None, 1]
    assert run(grey).shape == (4, 5, 1)
    wide = tf.io.decode_png(encoded, dtype=tf.uint16)
    np.testing.assert_array_equal(run(wide), pixels.astype(np.uint16) * 257)


def test_png_files_keep_16_bits(run, rng):
    pixels = rng.randint(0, 65536, [4, 5, 3]).astype(np.uint16)
    for encoded in (tf.image.encode_png(pixels),
                    tf.io.encode_png(tf.constant(pixels), 9, "png")):
        for decode in (tf.image.decode_png, tf.image.decode_image):
            np.testing.assert_array_equal(
                run(decode(encoded, channels=3, dtype=tf.uint16)), pixels)
    assert encoded.op.name == "png"
    small = tf.image.encode_png([[[1], [2]]])
    assert run(tf.image.decode_png(small)).tolist() == [[[1], [2]]]


def test_jpeg_files_are_nearly_the_image(run):
    pixels = np.full([16, 16, 3], 100, np.uint8)
    encoded = tf.image.encode_jpeg(pixels, quality=100)
    assert run(tf.image.is_jpeg(encoded))
    assert not run(tf.image.is_jpeg(tf.image.encode_png(pixels)))
    assert run(tf.image.extract_jpeg_shape(encoded)).tolist() == [16, 16, 3]
    decoded = run(tf.image.decode_jpeg(encoded))
    assert np.abs(decoded.astype(int) - 100).max() <= 2
    part = run(tf.image.decode_and_crop_jpeg(encoded, [2, 3, 4, 5]))
    assert part.shape == (4, 5, 3)


BMP = bytes([0x42, 0x4d, 70, 0, 0, 0, 0, 0, 0, 0, 54, 0, 0, 0, 40, 0, 0, 0, 2,
             0, 0, 0, 2, 0, 0, 0, 1, 0, 24, 0, 0, 0, 0, 0, 16, 0, 0, 0, 19, 11,
             0, 0, 19, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255,
             255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0])


def test_images_of_any_format_are_decoded(run):
    pixels = np.array([[[0, 0, 255], [0, 255, 0]],
                       [[255, 0, 0], [255, 255, 255]]], np.uint8)
    np.testing.assert_array_equal(run(tf.image.decode_image(BMP)), pixels)
    np.testing.assert_array_equal(run(tf.image.decode_bmp(BMP)), pixels)
    png = tf.image.encode_png(pixels)
    np.testing.assert_array_equal(run(tf.image.decode_image(png)), pixels)
    np.testing.assert_allclose(
        run(tf.image.decode_image(png, dtype=tf.float32)), pixels / 255.0,
        rtol=1e-4)
    jpeg = tf.image.encode_jpeg(pixels)
    assert run(tf.image.decode_image(jpeg, channels=1)).shape == (2, 2, 1)
    for contents, channels in ((BMP, 1), (jpeg, 4)):
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="Channels must be in"):
            run(tf.image.decode_image(contents, channels=channels))
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Unable to decode bytes"):
        run(tf.image.decode_image("no image"))
    with pytest.raises(ValueError, match="channels must be in"):
        tf.image.decode_image(png, channels=2)


# A GIF file of two frames of one pixel: black, then white.
GIF = (b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff"
       b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00"
       b",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;")


def test_animations_have_frames(run):
    frames = tf.image.decode_gif(GIF)
    assert frames.shape.as_list() == [None, None, None, 3]
    assert run(frames).tolist() == [[[[0, 0, 0]]], [[[255, 255, 255]]]]
    assert run(tf.image.decode_image(GIF)).shape == (2, 1, 1, 3)
    first = tf.image.decode_image(GIF, expand_animations=False)
    assert run(first).tolist() == [[[0, 0, 0]]]


def test_jpeg_quality(run, rng):
    image = rng.rand(8, 8, 3).astype(np.float32)
    better, worse = (
        np.abs(run(tf.image.adjust_jpeg_quality(image, q)) - image).mean()
        for q in (95, 10))
    assert better < worse
    assert run(tf.image.random_jpeg_quality(image, 50, 90)).shape == (8, 8, 3)
    with pytest.raises(ValueError, match="between 0 and 100"):
        tf.image.random_jpeg_quality(image, 50, 101)
    with pytest.raises(ValueError, match="must be less than"):
        tf.image.random_jpeg_quality(image, 50, 50)


# ---- Sizes -------------------------------------------------------------------


@pytest.mark.parametrize("method", range(4))
def test_images_are_resized(run, method):
    ramp = np.tile(np.arange(4, dtype=np.float32)[:, None, None], [1, 4, 1])
    twice = tf.image.resize_images(ramp, [8, 4], method)
    assert twice.shape.as_list() == [8, 4, 1]
    got = run(twice)[:, 0, 0]
    if method == tf.image.ResizeMethod.NEAREST_NEIGHBOR:
        assert got.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    if method == tf.image.ResizeMethod.BILINEAR:
        assert got.tolist() == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3]
    half = run(tf.image.resize(np.stack([ramp, ramp + 1]), [2, 2], method))
    assert half.shape == (2, 2, 2, 1)
    if method == tf.image.ResizeMethod.AREA:
        assert half[1, :, 0, 0].tolist() == [1.5, 3.5]


def test_corners_may_be_aligned(run):
    x = np.array([0, 3], np.float32).reshape(1, 2, 1, 1)
    got = run(tf.image.resize_images(x, [4, 1], align_corners=True))
    np.testing.assert_allclose(got.ravel(), [0, 1, 2, 3], rtol=1e-6)
    same = tf.image.resize_bilinear(x, [4, 1], align_corners=True)
    np.testing.assert_array_equal(run(same), got)
    assert run(tf.image.resize_nearest_neighbor(x, [4, 1])).ravel().tolist() == (
        [0, 0, 3, 3])


def test_proportions_may_be_kept(run, image):
    resized = tf.image.resize_images(image, [20, 14],
                                     preserve_aspect_ratio=True)
    assert resized.shape.as_list() == [10, 14, 3]
    x = tf.placeholder(tf.float32, [None, None, 3])
    dynamic = tf.image.resize_images(x, [20, 14], preserve_aspect_ratio=True)
    assert dynamic.shape.as_list() == [None, None, 3]
    np.testing.assert_array_equal(run(dynamic, {x: image}), run(resized))


def test_images_of_the_wanted_size_are_returned(rng):
    pixels = tf.constant(rng.randint(0, 9, [2, 4, 5, 3]), tf.uint8)
    assert tf.image.resize_images(pixels, [4, 5]) is pixels
    assert tf.image.resize_images(pixels, [4, 6]).dtype == tf.float32
    assert tf.image.resize_images(pixels, [4, 6], 1).dtype == tf.uint8


def test_wrong_sizes_are_errors(image):
    for x, size, match in (
            (tf.placeholder(tf.float32), [2, 2], "contains no shape"),
            (image[0], [2, 2], "either 3 or 4 dimensions"),
            (image, [2, 2, 2], "Tensor of 2 elements"),
            (image, "ab", "1-D int32 Tensor")):
        with pytest.raises(ValueError, match=match):
            tf.image.resize_images(x, size)
    with pytest.raises(ValueError, match="not implemented"):
        tf.image.resize_images(image, [2, 2], 9)


def test_images_are_padded_to_keep_proportions(run):
    ones = np.ones([2, 4, 1], np.float32)
    padded = tf.image.resize_image_with_pad(ones, 6, 8)
    assert padded.shape.as_list() == [6, 8, 1]
    got = run(padded)[:, :, 0]
    np.testing.assert_allclose(got[1:5], 1)
    assert not got[0].any() and not got[5].any()
    with pytest.raises(ValueError, match="target_width must be > 0"):
        tf.image.resize_image_with_pad(ones, 6, 0)


def test_boxes_are_cut_and_resized(run):
    ramp = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    crops = tf.image.crop_and_resize(
        ramp, [[0, 0, 1, 1], [0, 0, 2, 2]], [0, 0], [2, 2],
        extrapolation_value=-1)
    assert crops.shape.as_list() == [2, 2, 2, 1]
    got = run(crops)[..., 0]
    assert got[0].tolist() == [[0, 3], [12, 15]]
    assert got[1].tolist() == [[0, -1], [-1, -1]]
    named = tf.image.crop_and_resize(ramp, [[0, 0, 1, 1]], box_indices=[0],
                                     crop_size=[2, 2])
    np.testing.assert_array_equal(run(named)[0, :, :, 0], got[0])
    glimpse = tf.image.extract_glimpse(ramp, [2, 2], [[0.0, 0.0]])
    assert run(glimpse)[0, :, :, 0].tolist() == [[5, 6], [9, 10]]


def test_sizes_may_be_known_only_in_a_step(run, image):
    x = tf.placeholder(tf.float32)
    h = tf.placeholder_with_default(3, [])
    cut = tf.image.resize_image_with_crop_or_pad(x, h, 9)
    assert cut.shape.as_list() == [None, 9, None]
    got = run(cut, {x: image})
    np.testing.assert_array_equal(got[:, 1:8], image[1:4])
    assert not got[:, 0].any()
    for wrong in ([0, 7, 3], [5, 0, 3]):
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="must be > 0"):
            run(tf.image.flip_left_right(x), {x: np.zeros(wrong)})
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="height must be >= target"):
        run(tf.image.crop_to_bounding_box(x, 3, 0, h, 2), {x: image})


def test_no_image_is_an_error():
    for f in (tf.image.flip_left_right, tf.image.flip_up_down, tf.image.rot90,
              tf.image.transpose, tf.image.random_flip_left_right):
        with pytest.raises(ValueError, match="at least three-dimensional"):
            f(tf.zeros([3, 3]))
        with pytest.raises(ValueError, match="either 3 or 4 dimensions"):
            f(tf.zeros([1, 1, 3, 3, 3]))
        with pytest.raises(ValueError, match="must be > 0"):
            f(tf.zeros([3, 0, 3]))


# ---- Boxes -------------------------------------------------------------------


def test_boxes_are_drawn(run):
    drawn = run(tf.image.draw_bounding_boxes(
        tf.zeros([1, 5, 5, 3]), [[[0.0, 0.0, 0.99, 0.99]]]))[0]
    assert drawn[0, :4].any(-1).all() and not drawn[2, 2].any()
    green = run(tf.image.draw_bounding_boxes(
        tf.zeros([1, 5, 5, 3]), [[[0.0, 0.0, 0.99, 0.99]]],
        colors=[[0.0, 1.0, 0.0]]))[0]
    assert green[0, 0].tolist() == [0, 1, 0]


BOXES = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9],
         [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
SCORES = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]


def test_boxes_that_overlap_are_suppressed(run):
    def selected(*args, **kwargs):
        return run(tf.image.non_max_suppression(BOXES, SCORES, *args,
                                                **kwargs)).tolist()

    assert selected(3) == [3, 0, 5] and selected(2, 0.5) == [3, 0]
    assert selected(6, 0.5, 0.4) == [3, 0]
    assert selected(6, 1.0) == [3, 0, 1, 2, 4, 5]
    which, scores = run(tf.image.non_max_suppression_with_scores(
        BOXES, SCORES, 6, 0.5))
    assert which.tolist() == [3, 0, 5]
    np.testing.assert_allclose(scores, [0.95, 0.9, 0.3])
    # (TensorFlow's own test of soft suppression.)
    which, scores = run(tf.image.non_max_suppression_with_scores(
        BOXES, SCORES, 6, 0.5, 0.0, soft_nms_sigma=0.5))
    assert which.tolist() == [3, 0, 1, 5, 4, 2]
    np.testing.assert_allclose(
        scores, [0.95, 0.9, 0.384, 0.3, 0.256, 0.197], atol=1e-3)


def test_selected_boxes_may_be_padded(run):
    which, count = tf.image.non_max_suppression_padded(
        BOXES, SCORES, 5, pad_to_max_output_size=True)
    assert which.shape.as_list() == [5]
    assert run(which).tolist() == [3, 0, 5, 0, 0] and run(count) == 3
    which, count = tf.image.non_max_suppression_padded(BOXES, SCORES, 5)
    assert run(which).tolist() == [3, 0, 5] and run(count) == 3


def test_boxes_are_selected_by_given_overlaps(run):
    overlaps = [[1.0, 0.6, 0.1], [0.6, 1.0, 0.2], [0.1, 0.2, 1.0]]
    assert run(tf.image.non_max_suppression_overlaps(
        overlaps, [0.5, 0.9, 0.7], 3, 0.5)).tolist() == [1, 2]


def test_boxes_of_several_classes_are_combined(run):
    boxes = np.array(BOXES, np.float32)[None, :, None]
    scores = np.array(SCORES, np.float32)[None, :, None] * [1.0, 0.5]
    got = run(tf.image.combined_non_max_suppression(
        boxes, scores.astype(np.float32), 2, 3, clip_boxes=False))
    assert got[0].shape == (1, 3, 4) and got[3].tolist() == [3]
    np.testing.assert_allclose(got[1], [[0.95, 0.9, 0.475]])
    assert got[2].tolist() == [[0, 0, 1]]


def test_random_boxes_cover_objects(run):
    begin, size, box = tf.image.sample_distorted_bounding_box(
        [50, 60, 3], [[[0.2, 0.2, 0.8, 0.8]]], seed=3, min_object_covered=0.5,
        area_range=[0.3, 1.0])
    assert box.shape.as_list() == [1, 1, 4]
    for _ in range(20):
        at, extent, (((top, left, low, right),),) = run([begin, size, box])
        assert at[2] == 0 and extent[2] == -1
        assert ((at[:2] + extent[:2]) <= [50, 60]).all()
        shared = (max(0, min(low, 0.8) - max(top, 0.2)) *
                  max(0, min(right, 0.8) - max(left, 0.2)))
        assert shared >= 0.5 * 0.36 * 0.99


def test_gradients_of_resized_doubles_are_tensorflows(run):
    grads = np.array([
        0.99, -0.42, 0.153, -0.346, 0, -0.583, 0.883, 0.446, -0.39, -0.965,
        -0.412, -0.806, -0.724, -0.875, 0.845, 0.213, 0.149, 0.666, 0.56, 0.304,
        -0.982, -0.923, 0.56, -0.239, -0.555, -0.865, 0.467, -0.7, -0.052,
        0.239], np.float32).reshape([1, 5, 3, 2])
    got = run(tf.raw_ops.ResizeBilinearGrad(
        grads=grads, original_image=np.zeros([1, 3, 4, 2])))
    # Sums of doubles whose terms are floats.
    np.testing.assert_allclose(got.ravel(), [
        1.343199998140335, -0.24159999191761017, -0.001999996602535248,
        -0.48799994587898254, -0.05593331158161163, -0.5457999259233475,
        -0.1098666712641716, -0.6036000549793243, 0.0626000463962555,
        -0.3715999238193035, 0.1637333780527115, -0.395466610789299,
        0.07653335109353065, -0.19726669415831566, -0.010666705667972565,
        0.0009333007037639618, -0.251800000667572, -0.7968000322580338,
        -0.09973330050706863, -0.9305332899093628, 0.09206664375960827,
        -0.40493339765816927, 0.28386674635112286, 0.12066669017076492],
        rtol=0, atol=1e-14)


# ---- Colours -----------------------------------------------------------------


@pytest.mark.parametrize("there,back", [
    ("rgb_to_hsv", "hsv_to_rgb"), ("rgb_to_yiq", "yiq_to_rgb"),
    ("rgb_to_yuv", "yuv_to_rgb")])
def test_colour_spaces_convert_back(run, image, there, back):
    there, back = getattr(tf.image, there), getattr(tf.image, back)
    x = tf.constant(image)
    assert np.abs(run(there(x)) - image).max() > 0.1
    np.testing.assert_allclose(run(back(there(x))), image, atol=1e-3)


def test_other_channels_are_refused_with_tensorflows_errors(run):
    x = tf.placeholder(tf.float32)
    for convert, error in (
            (tf.image.rgb_to_hsv, tf.errors.FailedPreconditionError),
            (tf.image.hsv_to_rgb, tf.errors.FailedPreconditionError),
            (lambda x: tf.raw_ops.AdjustHue(images=x, delta=0.1),
             tf.errors.InvalidArgumentError)):
        with pytest.raises(error, match="three channels"):
            run(convert(x), {x: np.zeros([2, 2, 4])})


def test_hue_and_saturation(run):
    red = np.array([[[1, 0, 0]]], np.float32)
    np.testing.assert_allclose(run(tf.image.adjust_hue(red, 1 / 3)),
                               [[[0, 1, 0]]], atol=1e-6)
    np.testing.assert_allclose(run(tf.image.adjust_saturation(red, 0.0)),
                               [[[1, 1, 1]]], atol=1e-6)
    pixels = tf.constant([[[255, 0, 0]]], tf.uint8)
    assert run(tf.image.adjust_hue(pixels, -1 / 3)).tolist() == [[[0, 0, 255]]]


def test_random_colours_depend_on_the_seed(image):
    def value(function, *args):
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(function(tf.constant(image), *args))

    for function, args in ((tf.image.random_hue, (0.4,)),
                           (tf.image.random_saturation, (0.2, 0.8))):
        np.testing.assert_array_equal(value(function, *args, 1),
                                      value(function, *args, 1))
        assert (value(function, *args, 1) != value(function, *args, 2)).any()
    for call in (lambda: tf.image.random_hue(image, 0.6),
                 lambda: tf.image.random_hue(image, -0.1),
                 lambda: tf.image.random_saturation(image, 1.0, 0.5),
                 lambda: tf.image.random_saturation(image, -1.0, 0.5)):
        with pytest.raises(ValueError):
            call()


# ---- Measures ----------------------------------------------------------------


def test_equal_images_are_most_similar(run, rng):
    a = rng.rand(2, 180, 176, 3).astype(np.float32)
    noisy = np.clip(a + 0.1 * rng.randn(*a.shape), 0, 1).astype(np.float32)
    for measure in (tf.image.ssim, tf.image.ssim_multiscale):
        np.testing.assert_allclose(run(measure(a, a, 1.0)), [1, 1], rtol=1e-5)
        assert (run(measure(a, noisy, 1.0)) < 0.99).all()
    x = tf.placeholder(tf.float32, [None, None, None, 3])
    np.testing.assert_allclose(
        run(tf.image.ssim_multiscale(x, noisy, 1.0), {x: a}),
        run(tf.image.ssim_multiscale(a, noisy, 1.0)), rtol=1e-5)


def test_signal_to_noise_is_in_decibels(run):
    a = np.zeros([2, 4, 4, 1], np.float32)
    b = a + np.array([0.1, 0.01], np.float32).reshape(2, 1, 1, 1)
    np.testing.assert_allclose(run(tf.image.psnr(a, b, 1.0)), [20, 40],
                               rtol=1e-4)
    pixels = np.full([4, 4, 1], 255, np.uint8)
    np.testing.assert_allclose(
        run(tf.image.psnr(pixels, 0 * pixels, 255)), 0, atol=1e-4)


def test_images_of_different_shapes_are_not_compared():
    a = tf.zeros([2, 16, 16, 3])
    for b in (tf.zeros([2, 16, 15, 3]), tf.zeros([3, 16, 16, 3])):
        for measure in (tf.image.psnr, tf.image.ssim):
            with pytest.raises(ValueError, match="ompatible"):
                measure(a, b, 1.0)
    with pytest.raises(ValueError, match="rank"):
        tf.image.psnr(a[0, 0], a[0, 0], 1.0)


def test_variation_and_gradients(run):
    x = np.array([[0, 1, 3], [0, 4, 0]], np.float32).reshape(1, 2, 3, 1)
    assert run(tf.image.total_variation(x)).tolist() == [17]
    assert run(tf.image.total_variation(x[0])) == 17
    dy, dx = run(tf.image.image_gradients(x))
    assert dy[0, :, :, 0].tolist() == [[0, 3, -3], [0, 0, 0]]
    assert dx[0, :, :, 0].tolist() == [[1, 2, 0], [4, -4, 0]]
    with pytest.raises(ValueError, match="3 or 4-dimensional"):
        tf.image.total_variation(x[0, 0])
    with pytest.raises(ValueError, match="expects a 4D tensor"):
        tf.image.image_gradients(x[0])


def test_edges_are_found(run):
    ramp = np.tile(np.arange(5, dtype=np.float32)[:, None], [1, 4])
    edges = tf.image.sobel_edges(np.stack([ramp, -ramp], -1)[None])
    assert edges.shape.as_list() == [1, 5, 4, 2, 2]
    got = run(edges)[0, 1:4]
    assert (got[..., 0, 0] == 8).all() and (got[..., 1, 0] == -8).all()
    assert (got[..., 1] == 0).all()


# ---- Projective transforms ---------------------------------------------------


def test_images_are_rotated_and_moved(run):
    image = np.arange(9, dtype=np.float32).reshape(3, 3)
    module = tf.contrib.image
    turned = module.rotate(image, np.pi / 2)
    assert turned.shape.as_list() == [3, 3]
    np.testing.assert_array_equal(run(turned), np.rot90(image))
    both = np.stack([image, image])[..., None]
    turned = run(module.rotate(both, [0.0, np.pi]))[..., 0]
    np.testing.assert_array_equal(turned, [image, np.rot90(image, 2)])
    moved = run(module.translate(image, [1, 0]))
    assert moved.tolist() == [[0, 0, 1], [0, 3, 4], [0, 6, 7]]
    half = run(module.translate(image, [0.5, 0], "bilinear"))
    assert half[1].tolist() == [1.5, 3.5, 4.5]


def test_transforms_are_composed(run):
    module = tf.contrib.image
    moves = module.translations_to_projective_transforms([[1.0, 2.0]])
    back = module.translations_to_projective_transforms([-1.0, -2.0])
    assert run(moves).tolist() == [[1, 0, -1, 0, 1, -2, 0, 0]]
    assert run(module.compose_transforms(moves, back)).tolist() == [
        [1, 0, 0, 0, 1, 0, 0, 0]]
    twice = [2.0, 0, 0, 0, 2.0, 0, 0, 0]
    image = np.arange(16, dtype=np.float32).reshape(4, 4)
    small = module.transform(image, twice, output_shape=[2, 2])
    assert run(small).tolist() == [[0, 2], [8, 10]]
    for call, error in (
            (lambda: module.transform([["a"]], twice), TypeError),
            (lambda: module.transform([1.0], twice), TypeError),
            (lambda: module.transform(image, [[twice]]), TypeError),
            (lambda: module.transform(image, twice, output_shape=[2]),
             ValueError),
            (lambda: module.rotate(image, [[0.0]]), TypeError),
            (lambda: module.flat_transforms_to_matrices(1.0), ValueError),
            (lambda: module.matrices_to_flat_transforms([1.0]), ValueError)):
        with pytest.raises(error):
            call()

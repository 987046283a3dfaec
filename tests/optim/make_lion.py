"""Prints the values that optimizer_test.cpp expects of Lion, from its paper's formula (Chen et al.,
"Symbolic Discovery of Optimization Algorithms", 2023, algorithm 2) in fp64."""

START = [1.0, -0.5, 0.25, 2.0]
GRADIENTS = [
    [0.5, -1.0, 0.125, 0.0],
    [0.25, 0.75, -2.0, 1e-9],
    [-0.125, 0.5, 0.0625, -3.0],
    [1.5, -0.25, 0.5, 0.75],
    [0.0, 2.0, -1.0, 0.25],
]


def train(beta1, beta2, weight_decay, learning_rate=0.1):
    parameters, averages = list(START), [0.0] * len(START)
    for gradients in GRADIENTS:
        for i, g in enumerate(gradients):
            c = beta1 * averages[i] + (1 - beta1) * g
            sign = (c > 0) - (c < 0)
            parameters[i] -= learning_rate * (sign + weight_decay * parameters[i])
            averages[i] = beta2 * averages[i] + (1 - beta2) * g
    return ", ".join(f"{p:.9f}" for p in parameters)


print("0.9, 0.99, no decay: ", train(0.9, 0.99, 0.0))
print("0.5, 0.8, decay 0.3: ", train(0.5, 0.8, 0.3))

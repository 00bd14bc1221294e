"""GPyTorch: variational GP with every training row an inducing input, natural gradients alternating with Adam."""

import gpytorch
import protocol
import torch

torch.set_num_threads(1)
torch.set_num_interop_threads(1)
torch.set_default_dtype(torch.float64)


class _Model(gpytorch.models.ApproximateGP):
    def __init__(self, X: torch.Tensor) -> None:
        q = gpytorch.variational.NaturalVariationalDistribution(len(X))
        strategy = gpytorch.variational.VariationalStrategy(self, X, q, learn_inducing_locations=False)
        super().__init__(strategy)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def fit(task: dict, data: dict) -> dict:
    """Until the ELBO has risen by less than 1e-5 a row in 20 rounds, or for 500 rounds."""
    if task["method"] != "vi":
        raise NotImplementedError("has variational inference only")
    X, y = torch.as_tensor(data["X"]), torch.as_tensor((data["y"] > 0).astype(float))
    model, likelihood = _Model(X), gpytorch.likelihoods.BernoulliLikelihood()
    model.covar_module.outputscale, model.covar_module.base_kernel.lengthscale = 1.0, 1.0
    loss = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(y), lr=0.1)
    adam = torch.optim.Adam(model.hyperparameters(), lr=0.05)
    model.train()
    values = []
    for _ in range(500):
        natural.zero_grad()
        adam.zero_grad()
        value = -loss(model(X), y)
        value.backward()
        natural.step()
        adam.step()
        values.append(-float(value))
        if len(values) > 40 and max(values[-20:]) < max(values[:-20]) + 1e-5:
            break
    return {
        "objective": max(values),
        "parameters": {
            "lengthscale": float(model.covar_module.base_kernel.lengthscale),
            "variance": float(model.covar_module.outputscale),
        },
        "rounds": len(values),
    }


if __name__ == "__main__":
    protocol.serve({"fit": fit}, {"library": f"GPyTorch {gpytorch.__version__}, PyTorch {torch.__version__}"})

% Evidences and predictions by GPML (Rasmussen & Williams' toolbox) for the data of tests/laws/peers.json.
%
% In GNU Octave 7 or later, with a copy of GPML 4.2 in GPML_FOLDER:
%
%     octave-cli studies/gpml_values.m GPML_FOLDER tests/laws/peers.json gpml.json
%     python studies/gpml_values.py tests/laws/peers.json gpml.json
%
% The first line writes what GPML gives; the second settles by brute force what is right, and stores both.
%
% GPML's parameters are logarithms:
%   covSEiso, covMaterniso(5)   hyp.cov = [log ℓ; ½ log σ²]      the same distance |x − x'|/ℓ
%   likErf, likLogistic         none                             y = ±1
%   likPoisson, link exp        none                             mean e^f
%   likGamma, link exp          hyp.lik = log shape              mean e^f, variance e^{2f}/shape
%   likBeta, link logit         hyp.lik = log precision          mean μ = σ(f), variance μ(1 − μ)/(1 + precision)
%   likT                        hyp.lik = [log(df − 1); log scale]
%
% Every method is taken to its end; GPML's own tolerances (1e-6 in Ψ for Laplace, 1e-4 in nlZ for EP and KL) stop before.

1;  % a script, not a function file

function [post, nlZ] = to_the_end(method, problem)
  switch method
    case 'laplace'
      clear infLaplace  % it would start where its last call ended
      [post, nlZ] = infLaplace(problem{:}, struct('irls_tol', 0, 'irls_maxit', 500));
    case 'vi'
      [post, nlZ] = infKL(problem{:}, struct('tol', 1e-15, 'max_iters', 2000));
    case 'ep'
      clear infEP  % likewise; called again, it goes on from the sites of its last call
      old = Inf;
      for call = 1:60
        [post, nlZ] = infEP(problem{:});
        if abs(nlZ - old) < 1e-11, return, end
        old = nlZ;
      end
      error('EP still moves after %d calls.', call)
  end
end

function row = one(row, lik, hyp, d)
  % GPML's q is the prior times the sites exp(nat1 f − ½ prec f²), as ours: alpha = nat1 − prec·mean.
  covs = struct('rbf', {{@covSEiso}}, 'matern52', {{@covMaterniso, 5}});
  cov = covs.(row.kernel); y = d.(row.target);
  try
    [post, nlZ] = to_the_end(row.method, {hyp, {@meanZero}, cov, lik, d.X, y});
  catch failure
    row.failure = failure.message; return
  end
  K = feval(cov{:}, hyp.cov, d.X);
  f = K * post.alpha; prec = post.sW .* abs(post.sW);
  row.evidence = -nlZ;
  % The posterior is given, so that no inference is run here.
  [~, ~, row.mean, row.var] = gp(hyp, @infLaplace, {@meanZero}, cov, lik, d.X, post, d.X_new);
  row.prec = prec; row.nat1 = post.alpha + prec .* f;
  if strcmp(row.method, 'ep')  % the log normalisers of the tilted distributions, as GPML integrates them
    v = diag(K + K * post.L(K)); tau = 1 ./ v - prec; nu = f ./ v - row.nat1;
    row.log_z = feval(lik{:}, hyp.lik, y, nu ./ tau, 1 ./ tau, 'infEP');
  end
end

function main(folder, stored, out)
  addpath(folder); startup;
  version = regexp(fileread(fullfile(folder, 'README')), 'version (\S+)', 'tokens', 'once'){1};
  s = jsondecode(fileread(stored));
  student = [log(s.df - 1); log(s.scale)]; all = {'laplace', 'ep', 'vi'};
  jobs = {
    'probit',    {@likErf},            [],                'labels',   all
    'logit',     {@likLogistic},       [],                'labels',   all
    'poisson',   {@likPoisson, 'exp'}, [],                'counts',   all
    'gamma',     {@likGamma, 'exp'},   log(s.shape),      'positive', all
    'beta',      {@likBeta, 'logit'},  log(s.precision),  'shares',   all
    'student-t', {@likT},              student,           'values',   all
    'student-t', {@likT},              student,           'outliers', {'laplace'}
  };
  rows = {};
  for job = jobs'
    [likelihood, lik, hyp_lik, target, methods] = job{:};
    hyp = struct('mean', [], 'cov', [log(s.lengthscale); log(s.variance) / 2], 'lik', hyp_lik);
    for method = methods
      for kernel = {'matern52', 'rbf'}
        row = struct('peer', ['GPML ' version], 'likelihood', likelihood, 'method', method{1}, ...
                     'kernel', kernel{1}, 'target', target);
        rows{end + 1} = one(row, lik, hyp, s.data);
      end
    end
  end
  file = fopen(out, 'w'); fprintf(file, '%s\n', jsonencode(rows)); fclose(file);
end

main(argv(){:});

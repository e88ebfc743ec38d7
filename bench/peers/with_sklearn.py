"""scikit-learn: the reference. NOT private."""

import sklearn
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from worker import serve


def regression(table, job, seed):
    model = LinearRegression().fit(table[:, :-1], table[:, -1])
    return [*model.coef_, model.intercept_]


def pca(table, job, seed):
    return PCA(job["components"]).fit(table).components_


serve(sklearn.__version__, regression=regression, line=regression, pca=pca, pca_about_mean=pca)
